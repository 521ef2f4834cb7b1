"""What Nova's API, Placement and scheduler make of extra specs, traits and scores."""
