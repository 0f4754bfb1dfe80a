"""The catalogue of devices: data files with sources, read into typed records, and exact look-up."""
