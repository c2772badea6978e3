"""The standalone pair: both programs, a shop floor that plays, and the ledger."""
