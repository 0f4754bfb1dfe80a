"""The Python face: people's own code measured with the engine that measures models (docs/python.md).

A third composition root beside `app` and `worker`. It knows neither store nor table nor orchestrator.
"""
