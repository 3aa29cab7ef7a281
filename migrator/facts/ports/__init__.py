"""What is ported already, by hand or by this tool."""
