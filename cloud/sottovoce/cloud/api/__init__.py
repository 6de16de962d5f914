"""The wire's services, admission, and the server process."""
