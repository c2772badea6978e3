"""The OpenAPI document of the public surfaces."""
