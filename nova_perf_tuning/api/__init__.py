"""What Nova's API process loads: no libvirt, no lxml, nothing of the host."""
