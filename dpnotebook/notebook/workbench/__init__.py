"""Questions by mouse and keyboard: the workbench, its workload builder, and the budget planner."""
