"""What nova-scheduler loads: no libvirt, no lxml, nothing of the host."""
