"""What a cell would cost, said in JupyterLab's status bar while it is being typed: by the planner alone."""
