"""Stock counts, the targets they set, and the adjustments that apply them."""
