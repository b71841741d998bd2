"""The command `dpnotebook tour`: the notebooks that come with the package, in JupyterLab or as one page."""
