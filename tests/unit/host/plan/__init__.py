"""The host plan: what holds on every topology, and worked examples."""
