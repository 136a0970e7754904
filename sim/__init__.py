"""When it happens: engines that run a schedule and return a Trace."""
