"""Writes the bundled step profiles and operation costs again, from the tables published with GPEmu."""
