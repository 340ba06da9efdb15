"""What a program pays before its first step that no framework's compiler asks for: builds, weights, process groups."""
