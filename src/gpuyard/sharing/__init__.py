"""Programs that share one GPU: the gate that they launch through, who decides its terms, and how programs join."""
