"""Measures a program, or predicts it where there is no GPU, and writes a profile."""
