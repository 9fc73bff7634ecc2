"""What mimics the libraries of the original servers: Express, Joi, Ajv, JSON text."""
