"""Answers kube-scheduler: which nodes can take a pod, how good each is, and on which GPU it is bound."""
