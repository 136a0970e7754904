"""From table row to flits: fetch, wait for dependencies, read, frame."""
