"""Which product a variant is of, while more than one shows it.

One that moves from a product to another is shown by both, until the first one's news
of it comes.
"""

NEWEST = """
    NOT EXISTS (
        SELECT 1 FROM variants n WHERE n.store = v.store AND n.id = v.id
        AND (n.updated_at, n.product_id) > (v.updated_at, v.product_id))
"""
"""SQL that is true of the variant `v` as the product shows it that changed last."""
