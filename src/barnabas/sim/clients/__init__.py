"""Those who use the cluster while it is broken: producers, consumers, members of groups, administrators, strangers."""
