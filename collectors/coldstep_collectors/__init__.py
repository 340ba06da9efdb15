"""The hooks: one module per framework, compiler, profiler or other source of events."""
