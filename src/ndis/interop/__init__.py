"""Drop-ins for other privacy tools."""
