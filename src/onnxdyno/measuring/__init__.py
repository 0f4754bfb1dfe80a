"""One pass each: timing, memory, profiling. Clocks and runtimes are injected; nothing here knows where results go."""
