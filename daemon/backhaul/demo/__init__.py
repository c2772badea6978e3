"""The standalone demo: both programs, simulated people, and the comparison."""
