"""Traces and metrics by OTLP: the only modules that import OpenTelemetry."""
