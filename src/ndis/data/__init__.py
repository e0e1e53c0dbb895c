"""Private rows by public types: what opens arrays, frames, tables and files."""
