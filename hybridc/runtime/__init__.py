"""The runtime: executables, workspaces, the native executor, devices."""
