"""The storefront API: what shoppers see."""
