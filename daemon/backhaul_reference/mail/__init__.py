"""Mails to buyers and merchants, rendered when they are sent."""
