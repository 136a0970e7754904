"""The host's side: Communicator, driver, tensors and the command line."""
