"""The notifier: tells people's systems, by signed webhooks, what waits for a person.

A process of its own, not a thread of the reconciler: it holds the receivers' secrets, and the reconciler runs the team's code.
What it has to tell it reads from the state that the view shows, not from events in the projector's transaction: the projector
stays out of it, and nothing is lost when this process dies, since what is open is open still. Of a review that opened and settled
between two looks it is told that it settled.
"""
