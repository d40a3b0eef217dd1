pytest_plugins = ["long_plays"]
