"""What must hold: each invariant where it is looked at, of every state there is or of what is there at the end."""
