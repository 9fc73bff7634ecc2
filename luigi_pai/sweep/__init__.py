"""Sweeps: one task of many parameter values, submitted, watched and collected as many jobs together."""
