"""Order, mapping and concurrency only. Importing this package imports nothing: `flows.embedded` relies on it."""
