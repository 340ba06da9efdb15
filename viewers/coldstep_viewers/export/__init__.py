"""A trace for other tools: tables, SQL, TensorBoard, the Perfetto UI."""
