"""What is sent: graphs, trees, schedules and the bounds they are held against."""
