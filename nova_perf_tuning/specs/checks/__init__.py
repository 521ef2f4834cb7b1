"""What a flavor or an image gets wrong: pure checks of their texts; ``openstack perf ... check`` prints them."""
