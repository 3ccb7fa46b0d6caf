"""The order of the gallery: from the plainest example on; scripts that are not named here come last."""

FIRST = (
    *("tutorial", "swiss_roll", "wifi", "image_pose", "digits", "label_in_rounds", "pipeline", "known_surface"),
    "own_decoder",
)


def place(filename):
    """Sort key of a script."""
    name = filename.removeprefix("plot_").removesuffix(".py")
    return FIRST.index(name) if name in FIRST else len(FIRST), name
