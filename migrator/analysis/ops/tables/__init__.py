"""The rows: data that tests/analysis proves."""
