"""The storefront API for shoppers, and the shop page that uses it."""
