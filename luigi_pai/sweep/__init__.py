"""Sweeps: one task of many parameter values, as many jobs that are submitted, watched and collected together."""
