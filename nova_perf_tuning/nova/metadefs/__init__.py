"""Glance metadata definitions of the extra specs: plain JSON beside this module, made from the vocabulary."""
