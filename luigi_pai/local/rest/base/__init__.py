"""What the routes of all REST APIs share."""
