"""Pioneer (Peng et al., ICDE 2013): plans that combine past answers, refine them, and ask the question more roughly."""
