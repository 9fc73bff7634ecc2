"""Jobs as the v2 API shows them."""
