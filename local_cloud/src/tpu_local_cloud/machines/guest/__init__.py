"""Programs inside the machines: stand-ins for Google's guest agent and script runner."""
