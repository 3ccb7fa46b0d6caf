"""The numbers of this folder on which results depend: thresholds, grids of priors, and where computations stop.

Priors that users may change are in `geometry.priors`; numbers of the nearest labels are in `nearest`, those of lengths
of columns in `relevance` and `nearest_lengths`. What limits memory, time alone, or the error of rounding stands where
it is used. Above each number stands why, and what it does when it is [halved, doubled]: the change of the negative log
density of new labels (of classes: of the log loss), in nats a row; 0 is less than 0.001, [-] not measured.

    python benchmarks/sensitivity.py --decisions --clouds roll,table_box_8 --rows 150 --sets 1

Figures are the largest of those on these two clouds (student, counts, above 150 labels: on the roll alone), from one
or two sets of 40 labels (many: 200 and 600). They show which numbers matter, not which are best.
"""

import numpy as np

# --- Which candidates are compared, and which are left out.
# lighter candidates, relative to the heaviest, are dropped: a thousand of them would count as one [-0.004, -0.001]
KEEP = 1e-3
# lighter geometries are dropped, so that new rows need not be projected onto them [0, 0]
LIGHT_GEOMETRY = 0.01
# labels up to which every candidate sees all of them, which takes seconds; above, those of low rank do [0, 0]
SCREEN = 500
# labels that compare candidates above SCREEN [0, 0]
SCREENED = 250
# candidates up to which all see all labels [0, 0]
SCREENING = 12
# candidates so far behind the best on some labels are hopeless on all: e^-12 of its weight [0, 0]
NATS = 12.0
# numbers in all kernels of full rank together: 0.8 GB [-]
LARGEST = 10**8
# labels above which one kernel of full rank at most sees all of them: it takes minutes [-]
COSTLY = 2000
# of hyperparameters="evidence", which would let the noise vanish: 1 % of the signal's sd [0, 0]
LEAST_RATIO = 1e-4

# --- Signals σ_h² where no closed form integrates them.
# of labels of variance 1 with known noise: its sd from a sixth to ten times theirs [+0.005, +0.002]
SIGNALS = np.geomspace(0.03, 100.0, 15)
# of log rates and log odds: beyond, a factor of 100 in the rate is usual [0, 0]
COUNT_SIGNALS = np.geomspace(0.03, 6.0, 10)

# --- Gross errors of observations, beside a function that follows all labels (`left_out`).
# prior probability that there are any [0, 0]
RARE = 0.02
# √v over the largest error of a left-out label: larger ones were not seen [+0.004, +0.019]
GROSS_SIZES = np.geomspace(0.03, 1.0, 8)
# size of the grid of e, which begins at one label of all [0, 0]
N_RATES = 12
# its end: three labels of ten [0, 0]
LARGEST_RATE = 0.3
# components that predict left-out labels for this; time grows with them [0, 0]
HEAVIEST = 10

# --- likelihood="student": a function that does not follow gross errors.
# ν: heavy enough for gross errors, and a variance exists [-]
STUDENT_DOF = 4.0
# prior probability that a label is a gross error [-0.002, 0]
STUDENT_GROSS = 0.1
# λ of gross errors: of 3 to 1000 σ [-0.002, 0]
STUDENT_SIZES = np.logspace(-1, -6, 11)
# equally probable values of λ that represent Student t noise [0, -0.002]
TAILS = 12
# rounds at most [0, 0]
REWEIGHTS = 40
# change of log E[λ] below which rounds end [0, -0.002]
REWEIGHTED = 0.03
# fraction of labels that a start may leave out [0, 0]
SUSPECTS = 0.2
# how many standard deviations such labels are from the others [0, 0]
AWAY = 3.0
# suspects are looked for with one in so many candidates [0, 0]
THINNED = 4
# rounds with all candidates; then those with weight, and all of them at the end [0, 0]
FULL = 3
# scales from the median at which labels are cut where lengths of columns are learned [-0.266, 0]
CUT = 3.0

# --- Counts and successes: expectation propagation of one Gaussian site a label.
# sweeps at most [0, 0]
COUNT_SWEEPS = 20
# change of log τ below which sweeps end [0, 0]
COUNT_SETTLED = 1e-2
# step of each sweep: whole steps may oscillate [0, 0]
COUNT_DAMPING = 0.8
# lighter candidates, relative to all, are left out while sites are sought [0, 0]
LIGHT_FOR_SITES = 1e-4

# --- Classes: priors (`classes`).
# r, equally likely: ε of 10 %, 30 % and 100 % of the signal's sd [-0.027, +0.028]
CLASS_RATIOS = np.array([0.01, 0.1, 1.0])
# of log(d/C): regions are as many as classes, give or take a factor of 2 [+0.096, +0.052]
DIMENSION_SD = 0.7
# rows of the cloud from which d is computed [+0.012, 0]
DIMENSION_ROWS = 200
# the grid of γ [-0.010, +0.009]
SHARPNESS = np.geomspace(1.0, 16.0, 13)
# of log γ, whose prior is centred at no sharpening: γ up to about 3 [+0.005, -0.002]
SHARP_SD = 0.6
# labels that all rows count as for γ, for each label: by simulation, `benchmarks/reliability.py` [+0.001, -0.001]
ELSEWHERE = 20.0
# ε: fraction of the labels of a large cloud that may be wrong or of unusual rows [-]
ATYPICAL = 0.01
# sets of labels on other rows that say how sharp classes are [+0.033, -0.002]
TURNS = 4
# components of the mixture that see them [-0.021, 0]
DRAWN = 48
# rows without a label that are asked [-0.022, 0]
ASKED = 200

# --- Classes: which candidates see all labels.
# of a first look at candidates [-0.020, -0.012]
FIRST_SWEEPS = 3
# labels that compare all pairs of candidate and ratio first, of more than twice as many [+0.008, -0.005]
FIRST_LABELS = 32
# pairs that they leave [+0.004, -0.005]
PROMISING = 200
# labels above which candidates are compared on CLASS_SCREENED of them [0, -0.021]
CLASS_SCREEN = 150
# labels for that [0, +0.002]
CLASS_SCREENED = 100
# candidates that they leave [0, +0.002]
CLASS_CANDIDATES = 12
# then so many times as many labels leave pairs within NATS, and so on [0, 0]
GROWTH = 4
# the most labels where no kernel has fewer modes than there are labels: the time grows with their cube [-]
FULL_RANK = 1500

# --- Classes: expectation propagation.
# sweeps at most [0, 0]
CLASS_SWEEPS = 30
# change of τ, relative to the largest, below which sweeps end [0, -0.004]
CLASS_SETTLED = 1e-2
# largest change of ν in the last sweep, relative to the largest ν, of what counts as settled [0, 0]
STILL = 0.05
# step of each sweep but the first [+0.007, +0.077]
CLASS_DAMPING = 0.8
# sweep from which the step is half of it, so that sites do not oscillate [0, -0.003]
CALM = 10

# --- Which row to label next, and when to stop (`design`).
# of largest weight, over which a gain is averaged [-]
COMPONENTS = 8
# rows over which the average predictive variance is taken [-]
TARGETS = 200
# rows that are compared at most; with more, a random subset [-]
CANDIDATES = 2000
# the same for a maximum or minimum, which have no targets [-]
OF_EXTREMES = 20_000
# components times rows for these: of few labels the eight heaviest of a thousand components have a
# tenth of the weight, and an improvement is expected of those that differ from the mean [-]
COMPONENTS_OF_EXTREMES = 1_000_000
# of the standard deviation, in the gain of an extreme; 0.1 delays what improvements alone find [-]
EXPLORATION = 0.03
# largest and smallest labels that candidates with the nearest labels see [-]
ENDS = 50
# a smaller drop of the variance, relative to the noise's, does not matter [-]
NEGLIGIBLE = 0.01
# nats, ½ log 2: the function is known as well as one label tells [-]
KNOWN = 0.35
# nats, about what is left of a class with probability 0.99 [-]
SURE = 0.05
# further labels that must be expected to settle one more row (or SMALL of the rows) to be worth giving [-]
MORE = 20
# fraction of a large cloud that counts as one row for MORE [-]
SMALL = 0.002
# standard deviations between left-out labels and their probabilities: once in a hundred [-]
CONTRADICTED = 2.58

# --- Draws that stand for a distribution: their error is about 2 %.
# of each row, for quantiles of angles and for the covariance of counts [-]
DRAWS = 2000
# random waves that make a function in flat space [-]
FREQUENCIES = 2000
