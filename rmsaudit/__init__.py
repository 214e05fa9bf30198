"""rmsaudit: does this RMSNorm compute what that RMSNorm computes, and if not, why not?"""

__version__ = "0.1.0"
