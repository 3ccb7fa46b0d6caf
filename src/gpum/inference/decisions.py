"""All numbers of this folder on which results depend: thresholds, grids of priors, and where computations may stop.

Priors that users may change are in `geometry.priors`; numbers of the nearest labels are in `nearest`, those of lengths
of columns in `relevance` and `nearest_lengths`. What limits memory or the error of rounding stands where it is used.

    python benchmarks/sensitivity.py --decisions

halves and doubles each number. "none" says that the negative log density of new labels (of classes: of new rows) then
changed by less than 0.005 nats a row on its simulated clouds; figures are the largest change; "not measured" that these
clouds do not reach it.
"""

import numpy as np

# Which candidates are compared, and which are left out.
KEEP = 1e-3  # lighter candidates, relative to the heaviest, are dropped: a thousand of them would count as one
LIGHT_GEOMETRY = 0.01  # lighter geometries are dropped, so that new rows need not be projected onto them
SCREEN = 500  # labels up to which every candidate sees all of them, which takes seconds; above, those of low rank do
SCREENED = 250  # labels that compare candidates above SCREEN
SCREENING = 12  # candidates up to which all see all labels
NATS = 12.0  # candidates so far behind the best on some labels are hopeless on all: e^-12 of its weight
LARGEST = 10**8  # numbers in all kernels of full rank together: 0.8 GB
COSTLY = 2000  # labels above which one kernel of full rank at most sees all of them: it takes minutes
LEAST_RATIO = 1e-4  # of hyperparameters="evidence", which would let the noise vanish: 1 % of the signal's sd

# Signals σ_h² where noise is known, and no closed form integrates them.
SIGNALS = np.geomspace(0.03, 100.0, 15)  # of labels of variance 1: its sd from a sixth to ten times theirs
COUNT_SIGNALS = np.geomspace(0.03, 6.0, 10)  # of log rates and log odds: beyond, rates differ by factors above 100

# Gross errors of observations, beside a function that follows all labels (`left_out`).
RARE = 0.02  # prior probability that there are any
GROSS_SIZES = np.geomspace(0.03, 1.0, 8)  # √v over the largest error of a left-out label: larger ones were not seen
N_RATES, LARGEST_RATE = 12, 0.3  # the grid of e goes from one label of all to this fraction of them
HEAVIEST = 10  # components that predict left-out labels for this: the heaviest ten have nearly all of the weight

# likelihood="student": a function that does not follow gross errors.
STUDENT_DOF = 4.0  # ν: the tails of usual noise are heavy, and a variance exists
STUDENT_GROSS = 0.1  # prior probability that a label is a gross error
STUDENT_SIZES = np.logspace(-1, -6, 11)  # λ of gross errors: of 3 to 1000 σ
TAILS = 12  # equally probable values of λ that represent Student t noise
REWEIGHTS, REWEIGHTED = 40, 0.03  # rounds at most, and the change of log E[λ] below which they end
SUSPECTS, AWAY = 0.2, 3.0  # fraction of labels that a start may leave out; how many sds they are from the others
THINNED = 4  # suspects are looked for with one in so many candidates
FULL = 3  # rounds with all candidates; then those with weight, and all of them at the end
CUT = 3.0  # scales from the median at which labels are cut where lengths of columns are learned

# Counts and successes: expectation propagation of one Gaussian site a label.
COUNT_SWEEPS, COUNT_SETTLED, COUNT_DAMPING = 20, 1e-2, 0.8  # sweeps at most, change of log τ that ends them, step
LIGHT_FOR_SITES = 1e-4  # lighter candidates, relative to all, are left out while sites are sought

# Classes: priors (`classes`).
CLASS_RATIOS = np.array([0.01, 0.1, 1.0])  # r: ε of 10 %, 30 % and 100 % of the signal's sd, equally likely
DIMENSION_SD = 0.7  # of log(d/C): regions are as many as classes, give or take a factor of 2
DIMENSION_ROWS = 200  # rows of the cloud from which d is computed
SHARPNESS = np.geomspace(1.0, 16.0, 13)  # the grid of γ
SHARP_SD = 0.6  # of log γ: no sharpening, or γ up to about 3
ELSEWHERE = 20.0  # times the labels, what rows without a label count for γ: by simulation, `benchmarks/reliability.py`
ATYPICAL = 0.01  # ε: fraction of the labels of a large cloud that may be wrong or of unusual rows
TURNS, DRAWN, ASKED = 4, 48, 200  # sets of labels elsewhere, components of the mixture that see them, rows asked

# Classes: which candidates see all labels.
FIRST_SWEEPS = 3  # of a first look at candidates
FIRST_LABELS, PROMISING = 32, 200  # of more than twice as many labels so many see all pairs, and leave so many
CLASS_SCREEN, CLASS_SCREENED = 150, 100  # labels above which candidates are compared on some of them, and these
CLASS_CANDIDATES = 12  # candidates that such a comparison leaves
GROWTH = 4  # then so many times as many labels leave pairs within NATS, and so on
FULL_RANK = 1500  # the most labels where no kernel has fewer modes than there are labels

# Classes: expectation propagation.
CLASS_SWEEPS, CLASS_SETTLED = 30, 1e-2  # sweeps at most, and the change of τ that ends them
STILL = 0.05  # largest change of ν in the last sweep, relative to the largest ν, of what counts as settled
CLASS_DAMPING, CALM = 0.8, 10  # step; half of it from sweep CALM on, so that sites do not oscillate

# Which row to label next, and when to stop (`design`).
COMPONENTS = 8  # of largest weight, over which a gain is averaged
TARGETS = 200  # rows over which the average predictive variance is taken
CANDIDATES = 2000  # rows that are compared at most; with more, a random subset
OF_EXTREMES = 20_000  # the same for a maximum or minimum, which have no targets
# Components times candidates for these: of few labels the eight heaviest of a thousand components have a tenth of the
# weight, and an improvement is expected of those that differ from the mean.
COMPONENTS_OF_EXTREMES = 1_000_000
ENDS = 50  # largest and smallest labels that candidates with the nearest labels see
NEGLIGIBLE = 0.01  # a smaller drop of the variance, relative to the noise's, does not matter
KNOWN = 0.35  # nats, ½ log 2: the function is known as well as one label tells
SURE = 0.05  # nats, about what is left of a class with probability 0.99
MORE = 20  # further labels that must be expected to settle one more row (or SMALL of the rows) to be worth giving
SMALL = 0.002
CONTRADICTED = 2.58  # standard deviations between left-out labels and their probabilities: once in a hundred

# Draws that stand for a distribution.
DRAWS = 2000  # of each row, for quantiles of angles and for the covariance of counts: an error of about 2 %
FREQUENCIES = 2000  # random waves that make a function in flat space: an error of about 2 % of the variance
